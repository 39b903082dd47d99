"""What all pages are made with: templates, their base page with
its policy, style, tables and colours.
"""
