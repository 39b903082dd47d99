"""Names this project's configuration for every ReFrame of an environment
that has the wheel, unless another one is named.

Imported by the wheel's path configuration file at the start of each Python of that environment, as
``ci/setup`` has a file of its own for a checkout: so it imports nothing that takes time.
"""

from __future__ import annotations

import os

_TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120
os.environ.setdefault("RFM_CONFIG_FILES", f"{_TOP}/site_configs/settings.py")
