"""What a run would come to, from a sample: who is drawn, what it costs, how sure that is."""
