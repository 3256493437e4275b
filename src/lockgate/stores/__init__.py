"""Where things are kept between calls: one file per way of keeping them."""
