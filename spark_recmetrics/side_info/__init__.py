"""The side information of an evaluation: models, catalog, and the properties of users and items."""
