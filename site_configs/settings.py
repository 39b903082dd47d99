"""The one ReFrame entry point: every system under site_configs/, every stack that has been built.

Use it with ``RFM_CONFIG_FILES=<here>/settings.py`` (the
project's own environment sets that by itself).
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    # At the end: ReFrame 4.10 puts this folder at the end of the path while it loads this file, and
    # afterwards takes out what is at that position (utility/__init__.py, temp_sys_path). Put in
    # front, ROOT would push site-packages there.
    sys.path.append(str(ROOT))

from reframe.core.exceptions import ConfigError  # noqa: E402

from reframe_tests.harness.vocabulary import BadInput  # noqa: E402

try:
    from reframe_tests.harness.sites import site
except BadInput as error:  # a further suite, MPI or launcher that cannot be used
    raise ConfigError(str(error)) from None

site_configuration = site.load(ROOT)
