"""What a call is and how it runs."""
