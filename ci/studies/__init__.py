"""Programs that measure mpibench itself: error rates, speed, sizes. Run
as ``PYTHONPATH=ci python -m studies.NAME``.
"""
