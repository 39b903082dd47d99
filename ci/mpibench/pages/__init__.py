"""What all pages are made with: templates, a base page with its security policy, style, tables and
colours.
"""
