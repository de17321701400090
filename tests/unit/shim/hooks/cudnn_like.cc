// A library whose names begin like the driver's.
extern "C" {
int cudnnFoo() { return 1; }
int cublasFoo() { return 2; }
int cuFileFoo() { return 3; }
int cu() { return 4; }
int cuMemAllocFoo() { return 5; }
}
