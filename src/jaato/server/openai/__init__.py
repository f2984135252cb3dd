"""Agents behind the API of OpenAI Chat Completions, for front ends that speak it."""
