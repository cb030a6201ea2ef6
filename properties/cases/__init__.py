"""Two generators of cases, the domain that limits both, the reducer and the named shapes."""
