"""Why: each formula with its numbers put in, and the guided path.

May import recovery and what it rests on. It never computes an answer again: it writes out the terms of one.
"""
