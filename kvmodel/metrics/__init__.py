"""What an engine's /metrics page says: its names by version, its state, and the rates between two scrapes.

May import the ground and the catalog. It reads and never judges: what is wrong at a server is said by `diagnosis`.
"""
