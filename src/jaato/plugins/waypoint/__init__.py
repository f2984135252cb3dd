"""Waypoints: points of a session to which its files can go back."""
