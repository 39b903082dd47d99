"""Makes this project's configuration the default of every ReFrame in an environment with the wheel.

The wheel's path configuration file imports it whenever a Python of that environment starts (for a
checkout, ``ci/setup`` writes its own such file). So it imports nothing slow.
"""

from __future__ import annotations

import os

_TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120
os.environ.setdefault("RFM_CONFIG_FILES", f"{_TOP}/site_configs/settings.py")
