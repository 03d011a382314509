"""A memo for a design review, and tables as files.

May import texts, charts and what they rest on. It never computes.
"""
