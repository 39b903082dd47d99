"""The one ReFrame entry point: every system under site_configs/, every stack that has been built.

Use it with ``RFM_CONFIG_FILES=<here>/settings.py`` (the project's own environment sets that by itself).
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from reframe_tests.harness import site  # noqa: E402

site_configuration = site.load(ROOT)
