penstock_test(sources/tfrecord core io sources)
