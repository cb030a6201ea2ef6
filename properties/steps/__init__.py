"""Steps of chosen sizes and kinds, built from their numbers: what a tour shows before random cases."""
