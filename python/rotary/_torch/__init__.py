"""The side of rotary that works on torch's tensors. It imports torch, so nothing imports it before there is one."""
