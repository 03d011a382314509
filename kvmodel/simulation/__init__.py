"""A Case under a workload: the scheduler with the model's clock, its results, and what each remedy buys.

May import recovery, scheduler and what they rest on. It never decides who is preempted: the scheduler does.
"""
