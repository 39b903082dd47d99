"""The dataset in the folder where a test stands: each test of verdicts in its own
(``ci/tests/judge/conftest.py``).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import synthetic_verdicts as verdicts

HERE = Path()

ask = partial(verdicts.ask, HERE)
judged = partial(verdicts.judged, HERE)
write_before = partial(verdicts.write_before, HERE)
write_session = partial(verdicts.write_session, HERE)
write_sessions = partial(verdicts.write_sessions, HERE)
