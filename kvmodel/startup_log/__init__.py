"""An engine's start-up log: its figures, and what they say held against the model.

May import memory and what it rests on. It never calls a log wrong without naming the two figures that contradict.
"""
