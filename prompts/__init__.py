"""How each model family lists tools and writes calls, and the templates that render them."""
