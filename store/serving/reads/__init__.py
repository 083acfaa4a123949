"""What was read of a store, and for whom: kept between questions, opened to some streams, held to one commit."""
