"""What follows: pure functions over the model. No await, no clock, no chance, no store; whoever calls brings those."""
