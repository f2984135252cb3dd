"""Permission decisions: policy, rules, grants, trust, and the gate that asks."""
