"""An engine's scheduler: who is admitted, preempted and resumed, in a clock of its own.

May import the ground alone. It never knows a model, a GPU or a Case: what a step takes is the clock's matter.
"""
