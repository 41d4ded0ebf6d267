package podrunner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// The first and the longest pause before a container is started again. A kubelet
// waits from ten seconds to five minutes; no test can.
const (
	firstBackOff   = 250 * time.Millisecond
	longestBackOff = 5 * time.Second
)

// Exit codes by which a runtime says that nobody's exit code is to be had.
const (
	exitKilled     = 137 // SIGKILL
	exitTerminated = 143 // SIGTERM
	exitNotStarted = 128 // the program could not be started
)

// container is one container of a Pod. Its fields below spec are guarded by the
// Pod's mutex.
type container struct {
	pod    *pod
	spec   *corev1.Container
	isInit bool

	state    corev1.ContainerState
	last     corev1.ContainerState
	restarts int32
	imageID  string
	logs     []*logFile // one per start

	mounted map[string]bool // by mount path; only the container's own goroutine uses it
}

func newContainer(p *pod, spec *corev1.Container, isInit bool) *container {
	reason := "ContainerCreating"
	if !isInit && len(p.object.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	return &container{pod: p, spec: spec, isInit: isInit, state: waiting(reason, ""), mounted: map[string]bool{}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// loop runs the container until it need not be started again.
func (c *container) loop() {
	for backOff := firstBackOff; ; backOff = min(2*backOff, longestBackOff) {
		code, ok := c.once()
		if !ok || !c.restart(code) {
			return
		}
		c.mu(func() {
			c.last = c.state
			c.state = waiting("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container", backOff))
		})
		c.pod.publish(false)
		if !pause(c.pod.stopping, backOff) {
			c.mu(func() { c.state = c.last })
			return
		}
		c.mu(func() { c.restarts++ })
	}
}

// restart applies the restart policy. An init container is done when it succeeded.
func (c *container) restart(code int32) bool {
	if c.pod.stopping.Err() != nil {
		return false
	}
	switch c.pod.object.Spec.RestartPolicy {
	case corev1.RestartPolicyAlways:
		return !c.isInit || code != 0
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return false
}

// once starts the container as soon as it can be, and waits for its end. It says no
// when the Pod was stopped before.
func (c *container) once() (code int32, ok bool) {
	program, ok := c.pull()
	if !ok {
		return 0, false
	}
	if program.Behaviour == nodeconfig.Hang || program.Behaviour == nodeconfig.HangDeaf {
		return c.hang(program), true
	}
	command, ok := c.prepare(program)
	if !ok {
		return 0, false
	}
	return c.execute(command), true
}

// pull waits for the image to be registered, as a kubelet waits for a registry.
func (c *container) pull() (nodeconfig.Program, bool) {
	for {
		program, known, err := c.pod.runner.program(c.spec.Image)
		switch {
		case err != nil:
			c.wait("ErrImagePull", err.Error())
		case !known:
			c.wait("ImagePullBackOff", fmt.Sprintf("image %q is not registered with the Pod runner", c.spec.Image))
		case program.Behaviour == nodeconfig.PullError:
			c.wait("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q", c.spec.Image))
		case program.Behaviour == nodeconfig.ConfigError:
			c.wait("CreateContainerConfigError", "this image stands for a container that cannot be configured")
		default:
			id, err := imageID(c.spec.Image, program)
			if err == nil {
				c.mu(func() { c.imageID = id })
				return program, true
			}
			c.wait("ErrImagePull", err.Error())
		}
		if !pause(c.pod.stopping, retryPause) {
			return nodeconfig.Program{}, false
		}
	}
}

// prepare makes the files and the environment, and waits for the objects they need.
func (c *container) prepare(program nodeconfig.Program) (command, bool) {
	for {
		reason := "ContainerCreating" // a kubelet says no more about a missing volume
		err := c.mount()
		if err == nil {
			reason = "CreateContainerConfigError"
			var built command
			if built, err = c.command(program); err == nil {
				return built, true
			}
		}
		c.wait(reason, err.Error())
		if !pause(c.pod.stopping, retryPause) {
			return command{}, false
		}
	}
}

func (c *container) wait(reason, message string) {
	c.mu(func() { c.state = waiting(reason, message) })
	c.pod.publish(false)
}

func (c *container) hang(program nodeconfig.Program) int32 {
	started := c.running()
	end, code := c.pod.stopping, int32(exitTerminated)
	if program.Behaviour == nodeconfig.HangDeaf {
		end, code = c.pod.killing, exitKilled
	}
	<-end.Done()
	c.terminated(started, code, "")
	return code
}

func (c *container) running() metav1.Time {
	started := metav1.Now().Rfc3339Copy()
	c.mu(func() {
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	})
	c.pod.publish(false)
	return started
}

// terminated records the end. The Pod's final status follows when all its containers
// have ended; while others still run it is published here.
func (c *container) terminated(started metav1.Time, code int32, message string) {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	if message != "" {
		reason = "StartError"
	}
	c.mu(func() {
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: message, StartedAt: started, FinishedAt: metav1.Now().Rfc3339Copy(),
			ContainerID: c.id(),
		}}
	})
	if len(c.pod.init)+len(c.pod.main) > 1 {
		c.pod.publish(false)
	}
}

func (c *container) mu(change func()) {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	change()
}

func (c *container) succeeded() (ok bool) {
	c.mu(func() { ok = c.exitedWith(0) })
	return ok
}

// exitedWith must be called with the Pod's mutex held.
func (c *container) exitedWith(code int32) bool {
	return c.state.Terminated != nil && c.state.Terminated.ExitCode == code
}

// everStarted must be called with the Pod's mutex held.
func (c *container) everStarted() bool {
	return c.state.Waiting == nil || c.last.Terminated != nil
}

// id must be called with the Pod's mutex held.
func (c *container) id() string {
	return fmt.Sprintf("podrunner://%s/%s/%d", c.pod.object.UID, c.spec.Name, c.restarts)
}

// status must be called with the Pod's mutex held.
func (c *container) status() corev1.ContainerStatus {
	running := c.state.Running != nil
	status := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.imageID,
		State: c.state, LastTerminationState: c.last, RestartCount: c.restarts,
		Ready: running || c.isInit && c.exitedWith(0), Started: &running,
	}
	if c.everStarted() {
		status.ContainerID = c.id()
	}
	return status
}

// log returns the log of the present start, or of the one before.
func (c *container) log(previous bool) *logFile {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	at := len(c.logs) - 1
	if previous {
		at--
	}
	if at < 0 {
		return nil
	}
	return c.logs[at]
}

// newLog must be called without the Pod's mutex.
func (c *container) newLog() (*logFile, error) {
	dir := filepath.Join(c.pod.dir, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of logs: %w", err)
	}
	log, err := createLog(filepath.Join(dir, c.spec.Name+"."+strconv.Itoa(len(c.logs))+".log"))
	if err != nil {
		return nil, err
	}
	c.mu(func() { c.logs = append(c.logs, log) })
	return log, nil
}

// imageID is what the program says, or the digest of the reference, or a digest of
// the program itself: that is the content of the image here.
func imageID(image string, program nodeconfig.Program) (string, error) {
	repository := nodeconfig.Repository(image)
	if program.ImageID != "" {
		return program.ImageID, nil
	}
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return repository + "@" + digest, nil
	}
	sum := sha256.New()
	if program.Path != "" {
		file, err := os.Open(program.Path)
		if err != nil {
			return "", fmt.Errorf("image %s: %w", image, err)
		}
		_, err = io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("image %s: %w", image, err)
		}
	}
	return repository + "@sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
