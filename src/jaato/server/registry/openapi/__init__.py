"""What is served, as OpenAPI 3.1 has it: each route's operations stand in one table, its types are those of the wire."""
