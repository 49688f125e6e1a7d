"""DNSMOS P.835 for the filter dnsmos: features, and its model in parts."""
