"""What went on in the background, and where its time went: models and documents."""
