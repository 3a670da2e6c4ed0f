"""One model at work: which agent it is, its tools, its loop, and the log it leaves behind."""
