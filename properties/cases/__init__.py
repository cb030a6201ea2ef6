"""Two generators over one case, the domain that limits both, the reducer and the named shapes."""
