"""One preempted request: what each way back to its KV costs, where they break even, and which wins.

May import timing, memory and what they rest on. It never runs a workload: that is `simulation`.
"""
