import sys
from cumae.properties.running.device import prepare
prepare("auto")
import cumae.gpu_impl
from cumae.properties import bench
m=sys.modules["cumae.gpu_impl.prefix_interleave"]
for rows in (32,64,128,256):
    for cols in (16,32,64,128):
        for w in (4,8):
            m.ROWS,m.COLUMNS,m.NUM_WARPS=rows,cols,w
            try:
                t=[x for x in bench._interleave_timings()]
                print(rows,cols,w,[(x.kernel[:6],round(x.microseconds,1),round(x.gigabytes_per_second)) for x in t],flush=True)
            except Exception as e: print(rows,cols,w,type(e).__name__)
