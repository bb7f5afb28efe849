"""Forms, pages and a REST API in a browser."""
