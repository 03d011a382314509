"""What is wrong at a server and what to change first; rules and a dashboard by the same definitions.

May import metrics, simulation and what they rest on. It never reads a page of metrics itself.
"""
