"""Laws of bytes: the KV of a request, what a GPU leaves for KV, and how each engine prints the same pool.

May import the ground, the catalog and inputs. It never knows what anything takes in time.
"""
