"""The hosted form of the app: what stands around the pages when many people use one server."""
