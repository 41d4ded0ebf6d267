package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

// roleVariable makes this test binary one of its programs.
const roleVariable = "HOLDFAST_CONTROLPLANE_TEST_ROLE"

// programs are what this binary can be, by the name of the image.
func programs() map[string]func() int {
	return map[string]func() int{
		"report":  report,
		"deaf":    deaf,
		"polite":  polite,
		"lines":   printLines,
		"parent":  parent,
		"sleeper": wait,
		"starter": starter,
	}
}

func program(role string) controlplane.Program {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return controlplane.Program{Path: self, Env: []string{roleVariable + "=" + role}}
}

// seen is what the program "report" finds.
type seen struct {
	Args   []string
	Env    map[string]string
	Files  map[string]string
	Links  map[string]string
	Caller string
}

// report tells what it was given, and ends with the code in $CODE.
func report() int {
	found := seen{Args: os.Args, Env: map[string]string{}, Files: map[string]string{}, Links: map[string]string{}}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		found.Env[name] = value
	}
	root := os.Getenv("HOLDFAST_POD_ROOT")
	for _, path := range strings.Fields(os.Getenv("READ")) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			text = []byte(err.Error())
		}
		found.Files[path] = string(text)
		found.Links[path], _ = os.Readlink(filepath.Join(root, path))
	}
	found.Caller = caller()
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return 99
	}
	fmt.Fprintln(os.Stderr, "a word on stderr")
	code, _ := strconv.Atoi(os.Getenv("CODE"))
	return code
}

// caller asks the API server who this is.
func caller() string {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err.Error()
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err.Error()
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err.Error()
	}
	return review.Status.UserInfo.Username
}

// deaf says when it is asked to end, and does not.
func deaf() int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("ready", os.Getpid())
	for range asked {
		fmt.Println("asked to end")
	}
	return 0
}

// polite ends well when it is asked to.
func polite() int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("ready", os.Getpid())
	<-asked
	fmt.Println("goodbye")
	return 0
}

// printLines prints numbered lines, the last without an end, and fails.
func printLines() int {
	for i := range 10 {
		fmt.Printf("line %d\n", i)
	}
	fmt.Print("no newline")
	return 1
}

// parent starts a child that leaves its session, so that no signal to a group
// reaches it, and waits.
func parent() int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), roleVariable+"=sleeper")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("child", child.Process.Pid)
	return wait()
}

// wait waits to be killed. (An empty select would be a deadlock to the runtime.)
func wait() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGUSR1)
	<-stop
	return 0
}

// starter starts a control plane with the Pod of a parent in it, says where, and then
// waits to be killed.
func starter() int {
	dir, err := startWithPod(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started in", dir)
	return wait()
}

// processesOf lists the processes that have dir in their command line or environment.
func processesOf(dir string) []string {
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		command, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join(process, "environ"))
		if filepath.Base(process) == strconv.Itoa(os.Getpid()) {
			continue
		}
		if strings.Contains(string(command)+string(environment), dir) {
			found = append(found, filepath.Base(process)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}
