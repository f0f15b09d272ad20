"""The part of rotary for torch's tensors. It imports torch, so it is imported only once a tensor exists."""
