"""The model held against what others measured, and against a reader's own measurement.

May import recovery and what it rests on. It never shows rows that a constant was fitted on as a test of it.
"""
