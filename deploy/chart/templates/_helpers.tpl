{{- define "rlclinic.name" -}}
{{- .Release.Name }}-rlclinic
{{- end }}

{{- define "rlclinic.labels" -}}
app.kubernetes.io/name: rlclinic
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "rlclinic.selector" -}}
app.kubernetes.io/name: rlclinic
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rlclinic.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "rlclinic.databaseSecret" -}}
{{ .Values.database.existingSecret | default (printf "%s-database" (include "rlclinic.name" .)) }}
{{- end }}

{{- define "rlclinic.tokenSecret" -}}
{{ .Values.token.existingSecret | default (printf "%s-token" (include "rlclinic.name" .)) }}
{{- end }}

{{- define "rlclinic.claim" -}}
{{ .Values.runs.existingClaim | default (printf "%s-runs" (include "rlclinic.name" .)) }}
{{- end }}

{{- define "rlclinic.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "rlclinic.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "rlclinic.redisSecret" -}}
{{ .Values.redis.existingSecret | default (printf "%s-redis" (include "rlclinic.name" .)) }}
{{- end }}

{{- define "rlclinic.redisVariable" -}}
- name: RLCLINIC_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ include "rlclinic.redisSecret" . }}
      key: {{ .Values.redis.key }}
{{- end }}

{{- define "rlclinic.databaseVariable" -}}
- name: RLCLINIC_DB
  valueFrom:
    secretKeyRef:
      name: {{ include "rlclinic.databaseSecret" . }}
      key: {{ .Values.database.key }}
{{- end }}

{{- define "rlclinic.rayPod" -}}
automountServiceAccountToken: false
securityContext:
  {{- include "rlclinic.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: runs
    persistentVolumeClaim:
      claimName: {{ include "rlclinic.claim" . }}
  - name: tmp
    emptyDir: {sizeLimit: 8Gi}
  - name: shm
    emptyDir: {medium: Memory, sizeLimit: 1Gi}
{{- end }}

{{- define "rlclinic.rayContainer" -}}
image: {{ .Values.ray.image | default (include "rlclinic.image" .) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.ray.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "rlclinic.containerSecurity" . | nindent 2 }}
volumeMounts:
  - {name: runs, mountPath: /work/runs}
  - {name: tmp, mountPath: /tmp}
  - {name: shm, mountPath: /dev/shm}
{{- end }}

{{- define "rlclinic.rayProbes" -}}
startupProbe:
  tcpSocket: {port: {{ . }}}
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 90
livenessProbe:
  tcpSocket: {port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}
