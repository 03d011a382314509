"""Laws of time: plain numbers or arrays in, seconds out.

May import the ground, the catalog and inputs (`copy_path` alone takes a Case). It never knows a strategy or an answer.
"""
