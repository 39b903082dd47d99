"""Results for others: a static site of nights, metrics and cases,
and notices to a site's own monitoring.
"""
