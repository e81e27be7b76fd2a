// A CUDA driver that does nothing, for tests of what is called, and how often, on a machine without a GPU.
// Every call succeeds, except those that a capture forbids (900) while `capturing` is set. A thread whose capture mode
// is relaxed may still allocate. WARPIPE_FAKE_GPU is the GPU's compute capability, 9.0 if it is not set: a module for
// another one is refused (209), as a driver refuses it. The tests of the crate warpipe-host use this driver, too.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef int R;
static const R FORBIDDEN = 900;
long launches, encodes, allocs, frees, copies; int capturing; unsigned long long capture_id;
static unsigned mode;
static int strict(void){return capturing&&mode!=2;}
static void* cur;
static int compute(int minor){const char*s=getenv("WARPIPE_FAKE_GPU");if(!s)s="9.0";return atoi(minor? strchr(s,'.')+1 : s);}
R cuInit(unsigned f){return 0;}
R cuDriverGetVersion(int*v){*v=13000;return 0;}
R cuGetErrorName(int e,const char**n){*n="FAKE";return 0;}
R cuGetErrorString(int e,const char**n){*n="fake";return 0;}
R cuDeviceGetCount(int*c){*c=1;return 0;}
R cuDeviceGet(int*d,int o){*d=o;return 0;}
R cuDeviceGetName(char*n,int l,int d){strncpy(n,"FAKE",l);return 0;}
R cuDeviceTotalMem_v2(size_t*b,int d){*b=1ull<<37;return 0;}
R cuDeviceGetAttribute(int*v,int a,int d){switch(a){case 75:*v=compute(0);break;case 76:*v=compute(1);break;case 16:*v=132;break;case 97:*v=232448;break;default:*v=1000000;}return 0;}
R cuDevicePrimaryCtxRetain(void**c,int d){*c=(void*)0x1234;return 0;}
R cuDevicePrimaryCtxRelease_v2(int d){return 0;}
R cuDevicePrimaryCtxGetState(int d,unsigned*f,int*a){*f=0;*a=1;return 0;}
R cuCtxSetCurrent(void*c){cur=c;return 0;}
R cuCtxGetCurrent(void**c){*c=cur;return 0;}
R cuCtxPushCurrent_v2(void*c){cur=c;return 0;}
R cuCtxPopCurrent_v2(void**c){*c=cur;cur=0;return 0;}
R cuCtxGetDevice(int*d){*d=0;return 0;}
R cuCtxSynchronize(void){return capturing? FORBIDDEN : 0;}
static uint64_t next=0x700000000000ull;
R cuMemAlloc_v2(uint64_t*a,size_t b){if(strict())return FORBIDDEN;*a=next;next+=(b+511)/512*512;allocs++;return 0;}
R cuMemFree_v2(uint64_t a){if(capturing)return FORBIDDEN;frees++;return 0;}
R cuMemGetInfo_v2(size_t*f,size_t*t){*f=*t=1ull<<37;return 0;}
R cuMemcpyDtoH_v2(void*d,uint64_t s,size_t b){return 0;}
R cuMemcpyHtoD_v2(uint64_t d,const void*s,size_t b){return 0;}
R cuMemcpyHtoDAsync_v2(uint64_t d,const void*s,size_t b,void*stream){copies++;return 0;}
R cuMemcpy2DAsync_v2(const void*c,void*s){return 0;}
R cuMemsetD8_v2(uint64_t d,uint8_t v,size_t b){return capturing? FORBIDDEN : 0;}
R cuPointerGetAttributes(unsigned n,unsigned*k,void**v,uint64_t a){for(unsigned i=0;i<n;i++)switch(k[i]){case 2:*(unsigned*)v[i]=2;break;case 1:*(void**)v[i]=(void*)0x1234;break;case 9:*(int*)v[i]=0;break;case 11:*(uint64_t*)v[i]=4096;break;case 12:*(size_t*)v[i]=1ull<<60;break;}return 0;}
R cuMemRetainAllocationHandle(void*h,void*a){return 1;}
R cuMemRelease(uint64_t h){return 0;}
R cuModuleLoadDataEx(void**m,const void*i,unsigned o,unsigned*k,void**v){char t[32];snprintf(t,32,".target sm_%d%da",compute(0),compute(1));*m=(void*)0x55;return strstr(i,t)? 0 : 209;}
R cuModuleUnload(void*m){return 0;}
R cuModuleGetFunction(void**f,void*m,const char*n){*f=(void*)0x66;return 0;}
R cuModuleGetGlobal_v2(uint64_t*a,size_t*b,void*m,const char*n){*a=0;*b=0;return 0;}
R cuFuncLoad(void*f){return 0;}
R cuFuncSetAttribute(void*f,int a,int v){return 0;}
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int*c,void*f,int t,size_t s){*c=1;return 0;}
R cuOccupancyMaxActiveClusters(int*c,void*f,const void*g){*c=66;return 0;}
R cuLaunchKernelEx(const void*c,void*f,void**p,void**e){launches++;return 0;}
R cuTensorMapEncodeTiled(void*m,unsigned d,unsigned r,void*a,const uint64_t*D,const uint64_t*S,const unsigned*b,const unsigned*s,unsigned i,unsigned w,unsigned l,unsigned f){encodes++;return 0;}
R cuStreamCreate(void**s,unsigned f){static long n=0x9000;*s=(void*)(n++);return 0;}
R cuStreamDestroy_v2(void*s){return 0;}
R cuStreamSynchronize(void*s){return strict()? FORBIDDEN : 0;}
R cuStreamQuery(void*s){return 0;}
R cuStreamGetCtx(void*s,void**c){*c=(void*)0x1234;return 0;}
R cuStreamWaitEvent(void*s,void*e,unsigned f){return 0;}
R cuStreamGetCaptureInfo_v3(void*s,unsigned*st,uint64_t*id,void*g,void*d,void*e,size_t*n){*st=capturing;*id=capture_id;return 0;}
R cuStreamBeginCapture_v2(void*s,unsigned m){return 0;}
R cuStreamEndCapture(void*s,void**g){return 0;}
R cuThreadExchangeStreamCaptureMode(unsigned*m){unsigned was=mode;mode=*m;*m=was;return 0;}
R cuEventCreate(void**e,unsigned f){*e=(void*)1;return 0;}
R cuEventDestroy_v2(void*e){return 0;}
R cuEventRecord(void*e,void*s){return 0;}
R cuEventSynchronize(void*e){return 0;}
R cuEventQuery(void*e){return 0;}
R cuEventElapsedTime(float*m,void*a,void*b){*m=1;return 0;}
R cuEventElapsedTime_v2(float*m,void*a,void*b){*m=1;return 0;}
R cuGraphInstantiateWithFlags(void**x,void*g,uint64_t f){return 0;}
R cuGraphDestroy(void*g){return 0;}
R cuGraphExecDestroy(void*x){return 0;}
R cuGraphLaunch(void*x,void*s){return 0;}
