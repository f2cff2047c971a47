"""Values as text, pages, figures and files. Nothing is computed here."""
