"""What the keeper looks after meanwhile: runs whose process died, slots left behind, queues, trees, receipts."""
