"""Shell commands: one module for each, loaded when it is carried out."""
