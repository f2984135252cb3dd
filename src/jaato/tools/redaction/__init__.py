"""Redaction: what is kept, shown and sent names secrets and does not contain them."""
