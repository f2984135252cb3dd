"""Flows: an instruction planned over the tools of registries, carried out step by step, and answered from the results."""
