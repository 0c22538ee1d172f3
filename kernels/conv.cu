#include "simt.cuh"
EXPORT_TABLE(conv)
